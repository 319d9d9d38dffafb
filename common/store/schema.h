/* The files of schemas/sql as strings, made by the build. */
#ifndef SKEP_STORE_SCHEMA_H
#define SKEP_STORE_SCHEMA_H

extern const char skep_keeper_schema[];
extern const char skep_donor_schema[];

#endif
