# tests of crypto
