# tests of tensor
