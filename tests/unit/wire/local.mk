# tests of wire
