# gpu.c is part of the programs. What knows CUDA is skep-cuda.so, which is built where nvcc is (configure.ac) and loaded where a driver is.
noinst_LIBRARIES += common/gpu/libskep-gpu.a
common_gpu_libskep_gpu_a_SOURCES = common/gpu/gpu.c common/gpu/gpu.h common/gpu/plugin.h

PLUGIN_CUH = common/gpu/columns.cuh common/gpu/kernels.cuh common/gpu/launch.cuh
PLUGIN_KERNELS = common/gpu/activation.cu common/gpu/norm.cu common/gpu/rows.cu common/gpu/values.cu
PLUGIN_CU = $(PLUGIN_KERNELS) common/gpu/device.cu
EXTRA_DIST += common/gpu/README.md $(PLUGIN_CUH) $(PLUGIN_CU)

if CUDA
PLUGIN_OBJECTS = common/gpu/activation.o common/gpu/norm.o common/gpu/rows.o common/gpu/values.o \
    common/gpu/device.o
# No -G, no fast math: a job gives the same bits on every run of one device. The host's half hides all but the one entry.
NVCC_FLAGS = -std=c++17 -O3 -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra $(NVCC_WERROR) $(CUDA_TARGETS)
SUFFIXES = .cu
.cu.o:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(NVCC) $(NVCC_FLAGS) -I$(top_srcdir) -c $< -o $@
$(PLUGIN_OBJECTS): $(PLUGIN_CUH) common/gpu/plugin.h common/tensor/ops.h common/tensor/real.h common/base/error.h
common/gpu/skep-cuda.so: $(PLUGIN_OBJECTS)
	$(AM_V_GEN)$(NVCC) -shared -cudart static $(CUDA_TARGETS) $(PLUGIN_OBJECTS) -o $@ -lcublas -Xlinker -z,defs
skepexec_SCRIPTS = common/gpu/skep-cuda.so
CLEANFILES += $(PLUGIN_OBJECTS) common/gpu/skep-cuda.so
endif
