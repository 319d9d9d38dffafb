# Recorded PyTorch results (tests/data/torch/make.py wrote them), and the tests that read them.
TORCH_MODELS = lm-ends lm-attention lm-dmoe-document lm-dmoe-token lm-document lm-token lm-paper-ffn \
    classifier-ends classifier-ffn classifier-paper-ffn
EXTRA_DIST += tests/data/README.md tests/data/torch/make.py tests/data/torch/skep_torch.py tests/data/torch/curve.py \
    tests/data/torch/operations.safetensors
TORCH_RESULTS = tests/unit/model/torch-results.c tests/unit/model/torch-results.h tests/lib/model-numbers.h

UNIT_TESTS += tests/unit/model/test-torch-operations
tests_unit_model_test_torch_operations_SOURCES = tests/unit/model/test-torch-operations.c $(TORCH_RESULTS)
tests_unit_model_test_torch_operations_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
