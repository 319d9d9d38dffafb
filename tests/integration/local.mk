# The real programs on loopback addresses of their own; test-safetensors.py needs none.
INTEGRATION_TESTS = \
    tests/integration/test-bad-input.py \
    tests/integration/test-main-path.py \
    tests/integration/test-openapi.py \
    tests/integration/test-safetensors.py \
    tests/integration/test-swarm.py
TESTS += $(INTEGRATION_TESTS)
EXTRA_DIST += $(INTEGRATION_TESTS) tests/integration/lib/skep.py
