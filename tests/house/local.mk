# The house itself: who includes whom, and how the code looks.
TESTS += tests/house/test-floors.py tests/house/test-format.sh tests/house/test-neon.sh
EXTRA_DIST += tests/house/test-floors.py tests/house/test-format.sh tests/house/test-neon.sh
TESTS += tests/house/test-same-bits.sh
EXTRA_DIST += tests/house/test-same-bits.sh
