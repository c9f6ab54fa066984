/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The flows of FRIO: which record a packet's flow has, from its first packet queued to its last.
 *
 * A record costs one cache line. It is looked for once per packet, at its arrival; a queued packet
 * remembers the index. An arriving packet gets its flow a record; if it is dropped and the flow has
 * nothing queued, that goes at once. At the bound there is none to get: all flows beyond it are one
 * flow with the first record, FRIO_OVERFLOW (frio.h says why). A flow whose packets are there gets
 * a record of its own with the first packet that finds room; then it has two until those have left.
 */
#ifndef NET_FRIO_FLOWS_H
#define NET_FRIO_FLOWS_H

#include <linux/types.h>
#include <net/flow_table.h>
#include <net/frio.h>

#define FRIO_OVERFLOW	0

struct frio_record {
	struct flow_entry entry;
	struct frio_flow flow;
};

struct frio_flows {
	struct flow_table table;
	struct flow_hash hash;
	u32 bound;		/* records that may be in use, FRIO_OVERFLOW among them */
	u64 overflowed;		/* packets that arrived of flows beyond the bound */
};

/* Memory for `flows` flows. */
static inline u64 frio_flows_bytes(u32 flows)
{
	return flow_table_bytes(flows + 1, sizeof(struct frio_record), false);
}

/* The first record is that of a key that no packet has. */
static inline void frio_flows_reserve(struct frio_flows *f)
{
	struct flow_key key;

	flow_key_none(&key);
	key.version = 0xff;
	flow_table_insert(&f->table, &key, flow_key_hash(&f->hash, &key));
}

/* memory: frio_flows_bytes(), zeroed. */
static inline void frio_flows_init(struct frio_flows *f, void *memory, u32 flows, u64 seed)
{
	flow_table_init(&f->table, memory, flows + 1, sizeof(struct frio_record), false);
	flow_hash_init(&f->hash, seed);
	frio_flows_reserve(f);
	f->bound = flows + 1;
	f->overflowed = 0;
}

/* Flows that there is memory for. */
static inline u32 frio_flows_capacity(const struct frio_flows *f)
{
	return f->table.capacity - 1;
}

/* Flows that have a record. */
static inline u32 frio_flows_count(const struct frio_flows *f)
{
	return f->table.count - 1;
}

/*
 * Change how many flows may have a record. Those that have one keep it: beyond a smaller bound they
 * drain. Never more than the memory holds.
 */
static inline void frio_flows_set_bound(struct frio_flows *f, u32 flows)
{
	f->bound = flows < frio_flows_capacity(f) ? flows + 1 : f->table.capacity;
}

/* Move into a larger memory, zeroed. Returns the memory that is no longer used. */
static inline void *frio_flows_move(struct frio_flows *f, void *memory, u32 flows)
{
	struct flow_table from = f->table;

	flow_table_init(&f->table, memory, flows + 1, sizeof(struct frio_record), false);
	flow_table_move(&f->table, &from);
	return from.records;
}

static inline struct frio_record *frio_record(const struct frio_flows *f, u32 record)
{
	return (struct frio_record *)f->table.records + record;
}

static inline struct frio_flow *frio_flow(const struct frio_flows *f, u32 record)
{
	return &frio_record(f, record)->flow;
}

/* All queued packets are gone. */
static inline void frio_flows_clear(struct frio_flows *f)
{
	u32 record;

	for (record = 0; record < f->table.fresh; record++)
		*frio_flow(f, record) = (struct frio_flow){};
	flow_table_clear(&f->table);
	frio_flows_reserve(f);
}

/* May one more flow have a record? */
static inline bool frio_flows_have_room(const struct frio_flows *f)
{
	return f->table.count < f->bound;
}

/* The record of a packet whose flow may have none, which is counted. */
static inline u32 frio_flows_overflow(struct frio_flows *f)
{
	f->overflowed++;
	return FRIO_OVERFLOW;
}

/*
 * The record of an arriving packet's flow, or FRIO_OVERFLOW. A new one has nothing queued and no
 * strikes: it was left so.
 */
static inline u32 frio_flows_get(struct frio_flows *f, const struct flow_key *key)
{
	u32 hash = flow_key_hash(&f->hash, key);
	u32 record = flow_table_find(&f->table, key, hash);

	if (record != FLOW_TABLE_NONE)
		return record;
	if (!frio_flows_have_room(f))
		return frio_flows_overflow(f);
	return flow_table_insert(&f->table, key, hash);
}

static inline u32 frio_flows_get_ipv4(struct frio_flows *f, const struct flow_ipv4 *flow)
{
	u32 hash = flow_hash_ipv4(&f->hash, flow);
	u32 stride = sizeof(struct frio_record);
	u32 record = flow_table_find_ipv4(&f->table, flow, hash, stride);

	if (record != FLOW_TABLE_NONE)
		return record;
	if (!frio_flows_have_room(f))
		return frio_flows_overflow(f);
	flow_key_set_ipv4(&flow_table_take(&f->table, hash, stride, &record)->key, flow);
	return record;
}

/* A packet has left or was dropped: the record goes if the flow has nothing queued. */
static inline void frio_flows_release(struct frio_flows *f, u32 record)
{
	struct frio_record *r = frio_record(f, record);

	if (frio_flow_empty(&r->flow) && record != FRIO_OVERFLOW)
		flow_table_drop(&f->table, &r->entry, record);
}

/* frio_change_mode(), for the views and every flow. Records that are not in use are empty. */
static inline void frio_flows_change_mode(struct frio_flows *f, struct frio_params *p,
					  struct frio_vars *v, enum frio_mode to, u64 now)
{
	u32 record;

	frio_change_mode(p, v, to, now);
	for (record = 0; record < f->table.fresh; record++)
		frio_change_flow_mode(v, frio_flow(f, record), to);
}

#endif /* NET_FRIO_FLOWS_H */
