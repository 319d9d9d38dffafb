# tests of swarm
