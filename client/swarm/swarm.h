/*
 * `skep swarm`: a private swarm on this machine. It starts keepers and donors as separate processes, each on its own loopback
 * address, publishes a project the first time, shows how it goes, starts anew what dies, and stops all of it cleanly. It takes
 * no part in the swarm itself: it only asks its members for their status, as anyone could.
 *
 *   STARTING --all keepers listen--> PUBLISHING --project known--> RUNNING --time, tokens or Ctrl-C--> DRAINING
 *     --donors gone, keepers agree--> MEASURING --held-out text measured--> STOPPING --all gone--> done
 *
 * A second Ctrl-C skips to STOPPING.
 */
#ifndef SKEP_CLIENT_SWARM_SWARM_H
#define SKEP_CLIENT_SWARM_SWARM_H

/* Runs until done; the process exit status. argv[0] is `swarm`, then its words. */
int skep_swarm_main(int argc, char **argv);

#endif
