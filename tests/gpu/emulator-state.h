/* Between the emulator's files: whether the device is there, and its memory, which only kernels and copies may touch. */
#ifndef SKEP_TESTS_GPU_EMULATOR_STATE_H
#define SKEP_TESTS_GPU_EMULATOR_STATE_H

bool skep_emulated_present(void);
void skep_emulated_unlock(void);
void skep_emulated_lock(void);
/* Frees all of it. */
void skep_emulated_forget(void);

#endif
