# Recorded PyTorch results (tests/data/torch/make.py wrote them), and the tests that read them.
EXTRA_DIST += tests/data/README.md tests/data/torch/make.py tests/data/torch/skep_torch.py tests/data/torch/curve.py \
    tests/data/torch/operations.safetensors tests/data/torch/experts.safetensors \
    tests/data/torch/lm-ends.safetensors tests/data/torch/lm-attention.safetensors \
    tests/data/torch/lm-dmoe-document.safetensors tests/data/torch/lm-dmoe-token.safetensors \
    tests/data/torch/lm-document.safetensors tests/data/torch/lm-token.safetensors \
    tests/data/torch/lm-paper-ffn.safetensors tests/data/torch/classifier-ends.safetensors \
    tests/data/torch/classifier-ffn.safetensors tests/data/torch/classifier-paper-ffn.safetensors \
    tests/data/torch/curve-lm.safetensors tests/data/torch/curve-classifier.safetensors
TORCH_RESULTS = tests/unit/model/torch-results.c tests/unit/model/torch-results.h tests/lib/model-numbers.h

UNIT_TESTS += tests/unit/model/test-torch-operations
tests_unit_model_test_torch_operations_SOURCES = tests/unit/model/test-torch-operations.c $(TORCH_RESULTS)
tests_unit_model_test_torch_operations_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/model/test-torch-experts
tests_unit_model_test_torch_experts_SOURCES = tests/unit/model/test-torch-experts.c $(TORCH_RESULTS)
tests_unit_model_test_torch_experts_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/model/test-torch-models
tests_unit_model_test_torch_models_SOURCES = tests/unit/model/test-torch-models.c $(TORCH_RESULTS)
tests_unit_model_test_torch_models_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)

# The same two in float64, where nearly nothing but the recordings' rounding remains.
UNIT_TESTS += tests/unit/model/test-torch-experts64
tests_unit_model_test_torch_experts64_SOURCES = $(tests_unit_model_test_torch_experts_SOURCES)
tests_unit_model_test_torch_experts64_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_REAL_DOUBLE
tests_unit_model_test_torch_experts64_LDADD = $(MODEL64_LIBS)

UNIT_TESTS += tests/unit/model/test-torch-models64
tests_unit_model_test_torch_models64_SOURCES = $(tests_unit_model_test_torch_models_SOURCES)
tests_unit_model_test_torch_models64_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_REAL_DOUBLE
tests_unit_model_test_torch_models64_LDADD = $(MODEL64_LIBS)

UNIT_TESTS += tests/unit/model/test-torch-curves
tests_unit_model_test_torch_curves_SOURCES = tests/unit/model/test-torch-curves.c tests/bench/curve.c tests/bench/curve.h \
    $(TORCH_RESULTS)
tests_unit_model_test_torch_curves_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
