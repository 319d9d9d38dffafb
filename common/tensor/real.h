/*
 * The number type of the model's arithmetic: float32, or float64 where the library is compiled a second time with
 * -DSKEP_REAL_DOUBLE so that gradients can be checked against finite differences to more than three digits.
 */
#ifndef SKEP_TENSOR_REAL_H
#define SKEP_TENSOR_REAL_H

#ifdef SKEP_REAL_DOUBLE
#define skep_real double
#else
#define skep_real float
#endif

#endif
