# tests of sys
