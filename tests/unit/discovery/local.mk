# tests of discovery
