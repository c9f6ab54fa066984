/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The flows of FRIO: which record a packet's flow has, from its first packet queued to its last.
 *
 * A record costs one cache line and is found once per packet, at its arrival; a queued packet
 * remembers the index. A flow without a record is judged as one that has nothing queued, and gets
 * its record when a packet of it is queued. At the bound there is none to get: all flows beyond it
 * are one flow, FRIO_OVERFLOW (frio.h says why). A flow whose packets are there gets a record of
 * its own with the first packet that finds room; then it has two until those have left.
 */
#ifndef _NET_FRIO_FLOWS_H
#define _NET_FRIO_FLOWS_H

#include <linux/types.h>
#include <net/flow_table.h>
#include <net/frio.h>

#define FRIO_OVERFLOW	FLOW_TABLE_NONE		/* the flow of all that have no record */
#define FRIO_NEW	(FLOW_TABLE_NONE - 1)	/* has none, and may have one */

struct frio_record {
	struct flow_entry entry;
	struct frio_flow flow;
};

struct frio_flows {
	struct flow_table table;
	struct flow_hash hash;
	u32 bound;		/* records that may be in use */
	struct frio_flow overflow;
	struct frio_flow nothing;	/* of a flow that has no record yet */
	u64 overflowed;		/* packets that arrived of flows beyond the bound */
};

static inline u64 frio_flows_bytes(u32 capacity)
{
	return flow_table_bytes(capacity, sizeof(struct frio_record), false);
}

/* memory: frio_flows_bytes(), zeroed. */
static inline void frio_flows_init(struct frio_flows *f, void *memory, u32 capacity, u64 seed)
{
	flow_table_init(&f->table, memory, capacity, sizeof(struct frio_record), false);
	flow_hash_init(&f->hash, seed);
	f->bound = capacity;
	f->overflow = (struct frio_flow){};
	f->nothing = (struct frio_flow){};
	f->overflowed = 0;
}

/*
 * Change how many flows may have a record. Those that have one keep it: beyond a smaller bound they
 * drain. Never more than the memory holds.
 */
static inline void frio_flows_set_bound(struct frio_flows *f, u32 flows)
{
	f->bound = flows < f->table.capacity ? flows : f->table.capacity;
}

/* Move into a larger memory, zeroed. Returns the memory that is no longer used. */
static inline void *frio_flows_move(struct frio_flows *f, void *memory, u32 capacity)
{
	struct flow_table from = f->table;

	flow_table_init(&f->table, memory, capacity, sizeof(struct frio_record), false);
	flow_table_move(&f->table, &from);
	return from.records;
}

/* All queued packets are gone. */
static inline void frio_flows_clear(struct frio_flows *f)
{
	flow_table_clear(&f->table);
	f->overflow = (struct frio_flow){};
}

static inline struct frio_flow *frio_flow(struct frio_flows *f, u32 record)
{
	if (record < FRIO_NEW)
		return &((struct frio_record *)flow_table_record(&f->table, record))->flow;
	return record == FRIO_NEW ? &f->nothing : &f->overflow;
}

/* Where the flow of an arriving packet stands: its record, FRIO_NEW or FRIO_OVERFLOW. */
static inline u32 frio_flows_find(struct frio_flows *f, const struct flow_key *key, u32 hash)
{
	u32 record = flow_table_find(&f->table, key, hash);

	if (record != FLOW_TABLE_NONE)
		return record;
	if (f->table.count < f->bound)
		return FRIO_NEW;
	f->overflowed++;
	return FRIO_OVERFLOW;
}

/* A packet of a flow that is FRIO_NEW is going to be queued. Returns its record. */
static inline u32 frio_flows_add(struct frio_flows *f, const struct flow_key *key, u32 hash)
{
	u32 record = flow_table_insert(&f->table, key, hash);

	*frio_flow(f, record) = f->nothing;
	return record;
}

/* A packet has left: the record goes with the flow's last. */
static inline void frio_flows_release(struct frio_flows *f, u32 record)
{
	if (record != FRIO_OVERFLOW && frio_flow_empty(frio_flow(f, record)))
		flow_table_remove(&f->table, record);
}

/* frio_change_mode(), for the views and every flow. Records that are not in use are empty. */
static inline void frio_flows_change_mode(struct frio_flows *f, struct frio_params *p,
					  struct frio_vars *v, enum frio_mode to, u64 now)
{
	u32 record;

	frio_change_mode(p, v, to, now);
	frio_change_flow_mode(v, &f->overflow, to);
	for (record = 0; record < f->table.fresh; record++)
		frio_change_flow_mode(v, frio_flow(f, record), to);
}

#endif
