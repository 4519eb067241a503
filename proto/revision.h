/*
 * revision.h - the revision of the sources, which the programs of this tree report: what
 * `git describe` said when the program was built, or "unknown". proto/revision.cmake writes the
 * definition, and only programs link it, so that a new revision compiles nothing else.
 */
#ifndef PROTO_REVISION_H
#define PROTO_REVISION_H

extern const char gemmd_revision[];

#endif
