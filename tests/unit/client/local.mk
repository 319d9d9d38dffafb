# tests of client
