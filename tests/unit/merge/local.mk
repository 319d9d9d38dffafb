# tests of merge
