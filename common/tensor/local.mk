noinst_LIBRARIES += common/tensor/libskep-tensor.a
common_tensor_libskep_tensor_a_SOURCES =
EXTRA_DIST += common/tensor/README.md
