/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A bounded hash table from flow keys to records of the user's own type.
 *
 * A record starts with a struct flow_entry and is known by its index, which stays its own from
 * insertion to removal, also when the table moves to a larger memory. The memory is the caller's,
 * one zeroed block:
 *
 *	struct my_flow { struct flow_entry entry; u32 mine; };
 *
 *	bytes = flow_table_bytes(capacity, sizeof(struct my_flow), ordered);
 *	memory = kvzalloc(bytes, GFP_KERNEL);
 *	flow_table_init(&table, memory, capacity, sizeof(struct my_flow), ordered);
 *
 *	hash = flow_key_hash(&seeded, &key);
 *	i = flow_table_find(&table, &key, hash);
 *	if (i == FLOW_TABLE_NONE)
 *		i = flow_table_insert(&table, &key, hash);	FLOW_TABLE_NONE again: it is full
 *	mine = flow_table_record(&table, i);
 *
 * There are at least as many chains as records, so a chain is short and each operation takes
 * constant expected time. A table that is `ordered` keeps its records from the least to the most
 * recently used: insertion and flow_table_touch() make a record the newest; flow_table_oldest() is
 * the one to evict; flow_table_newer() walks on from there.
 */
#ifndef NET_FLOW_TABLE_H
#define NET_FLOW_TABLE_H

#include <linux/string.h>
#include <linux/types.h>

#include <net/flow_key.h>

#define FLOW_TABLE_NONE 0xffffffffU
#define FLOW_TABLE_CAPACITY_MAX 0x1000000U

struct flow_entry {
	struct flow_key key;
	u32 hash;
	u32 next; /* in its chain; of a free record: the next free one */
};

/* The neighbours in the order of use. */
struct flow_order {
	u32 older;
	u32 newer;
};

struct flow_table {
	u8 *records;
	u32 *chains;
	struct flow_order *order; /* NULL: not ordered */
	u32 stride;               /* bytes from one record to the next */
	u32 mask;                 /* chains - 1 */
	u32 capacity;             /* records that there is memory for */
	u32 count;                /* records in use */
	u32 fresh;                /* records from here on were never used */
	u32 freed;                /* first of those given back */
	u32 oldest;
	u32 newest;
};

static inline u32 flow_table_chains(u32 capacity)
{
	u32 chains = 1;

	while (chains < capacity)
		chains <<= 1;
	return chains;
}

static inline u32 flow_table_stride(u32 record_bytes)
{
	return (record_bytes + 7) & ~7U;
}

/* Memory for `capacity` records, 1 to FLOW_TABLE_CAPACITY_MAX. */
static inline u64 flow_table_bytes(u32 capacity, u32 record_bytes, bool ordered)
{
	return (u64)capacity * flow_table_stride(record_bytes) +
	       (ordered ? (u64)capacity * sizeof(struct flow_order) : 0) +
	       (u64)flow_table_chains(capacity) * sizeof(u32);
}

/*
 * memory: flow_table_bytes() of it, zeroed, aligned to 8. The table does not own it; `records` is
 * where it starts.
 */
static inline void flow_table_init(struct flow_table *t, void *memory, u32 capacity,
				   u32 record_bytes, bool ordered)
{
	u32 chains = flow_table_chains(capacity);
	u8 *behind;

	t->records = memory;
	t->stride = flow_table_stride(record_bytes);
	behind = t->records + (size_t)capacity * t->stride;
	t->order = ordered ? (struct flow_order *)behind : NULL;
	if (ordered)
		behind += (size_t)capacity * sizeof(struct flow_order);
	t->chains = (u32 *)behind;
	memset(t->chains, 0xff, (size_t)chains * sizeof(u32));
	t->mask = chains - 1;
	t->capacity = capacity;
	t->count = 0;
	t->fresh = 0;
	t->freed = FLOW_TABLE_NONE;
	t->oldest = FLOW_TABLE_NONE;
	t->newest = FLOW_TABLE_NONE;
}

static inline void *flow_table_record(const struct flow_table *t, u32 index)
{
	return t->records + (size_t)index * t->stride;
}

static inline struct flow_entry *flow_table_entry(const struct flow_table *t, u32 index)
{
	return flow_table_record(t, index);
}

static inline u32 flow_table_find(const struct flow_table *t, const struct flow_key *key,
				  u32 hash)
{
	u32 i = t->chains[hash & t->mask];

	while (i != FLOW_TABLE_NONE) {
		const struct flow_entry *entry = flow_table_entry(t, i);

		if (entry->hash == hash && flow_key_equal(&entry->key, key))
			break;
		i = entry->next;
	}
	return i;
}

/*
 * The same for the short form of an IPv4 key. stride is the table's: where every packet comes by, a
 * constant is better than a variable.
 */
static inline u32 flow_table_find_ipv4(const struct flow_table *t, const struct flow_ipv4 *flow,
				       u32 hash, u32 stride)
{
	u32 i = t->chains[hash & t->mask];

	while (i != FLOW_TABLE_NONE) {
		const void *record = t->records + (size_t)i * stride;
		const struct flow_entry *entry = record;

		if (flow_key_is_ipv4(&entry->key, flow))
			break;
		i = entry->next;
	}
	return i;
}

static inline u32 flow_table_oldest(const struct flow_table *t)
{
	return t->oldest;
}

static inline u32 flow_table_newer(const struct flow_table *t, u32 index)
{
	return t->order[index].newer;
}

static inline void flow_table_order_append(struct flow_table *t, u32 index)
{
	t->order[index].older = t->newest;
	t->order[index].newer = FLOW_TABLE_NONE;
	if (t->newest == FLOW_TABLE_NONE)
		t->oldest = index;
	else
		t->order[t->newest].newer = index;
	t->newest = index;
}

static inline void flow_table_order_unlink(struct flow_table *t, u32 index)
{
	struct flow_order *links = &t->order[index];

	if (links->older == FLOW_TABLE_NONE)
		t->oldest = links->newer;
	else
		t->order[links->older].newer = links->newer;
	if (links->newer == FLOW_TABLE_NONE)
		t->newest = links->older;
	else
		t->order[links->newer].older = links->older;
}

/* The record has been used now. Only for an ordered table. */
static inline void flow_table_touch(struct flow_table *t, u32 index)
{
	if (t->newest == index)
		return;
	flow_table_order_unlink(t, index);
	flow_table_order_append(t, index);
}

/*
 * The parts of insertion and removal that leave the order alone; a table without one is served by
 * them. To take a record for a key of that hash, which the caller fills in: NULL if all are in use.
 */
static inline struct flow_entry *flow_table_take(struct flow_table *t, u32 hash, u32 stride,
						 u32 *index)
{
	u32 *chain = &t->chains[hash & t->mask];
	struct flow_entry *entry;
	u32 i = t->freed;

	if (i != FLOW_TABLE_NONE) {
		entry = (void *)(t->records + (size_t)i * stride);
		t->freed = entry->next;
	} else if (t->fresh < t->capacity) {
		i = t->fresh++;
		entry = (void *)(t->records + (size_t)i * stride);
	} else {
		return NULL;
	}
	entry->hash = hash;
	entry->next = *chain;
	*chain = i;
	t->count++;
	*index = i;
	return entry;
}

/* entry: flow_table_entry() of index. */
static inline void flow_table_drop(struct flow_table *t, struct flow_entry *entry, u32 index)
{
	u32 *link = &t->chains[entry->hash & t->mask];

	while (*link != index)
		link = &flow_table_entry(t, *link)->next;
	*link = entry->next;
	entry->next = t->freed;
	t->freed = index;
	t->count--;
}

/*
 * Add a key that is not in the table. The user's part of the record is as it was left at removal:
 * initialise it. FLOW_TABLE_NONE: all records are in use.
 */
static inline u32 flow_table_insert(struct flow_table *t, const struct flow_key *key, u32 hash)
{
	struct flow_entry *entry;
	u32 index;

	entry = flow_table_take(t, hash, t->stride, &index);
	if (!entry)
		return FLOW_TABLE_NONE;
	entry->key = *key;
	if (t->order)
		flow_table_order_append(t, index);
	return index;
}

/* Give a record that is in use back. */
static inline void flow_table_remove(struct flow_table *t, u32 index)
{
	flow_table_drop(t, flow_table_entry(t, index), index);
	if (t->order)
		flow_table_order_unlink(t, index);
}

/* Empty the table: every index is free again, the memory stays. */
static inline void flow_table_clear(struct flow_table *t)
{
	if (!t->fresh)	/* never used since it was initialised */
		return;
	flow_table_init(t, t->records, t->capacity, t->stride, !!t->order);
}

/*
 * Move everything into `to`, which is newly initialised, of the same record size and ordering and
 * of at least the same capacity. Indices, the user's parts and the order of use stay. Afterwards
 * `from` and its memory are done with.
 */
static inline void flow_table_move(struct flow_table *to, const struct flow_table *from)
{
	u32 chain, i, next;

	memcpy(to->records, from->records, (size_t)from->fresh * from->stride);
	if (from->order)
		memcpy(to->order, from->order, (size_t)from->fresh * sizeof(*from->order));
	for (chain = 0; chain <= from->mask; chain++) {
		for (i = from->chains[chain]; i != FLOW_TABLE_NONE; i = next) {
			struct flow_entry *entry = flow_table_entry(to, i);
			u32 *link = &to->chains[entry->hash & to->mask];

			next = entry->next;
			entry->next = *link;
			*link = i;
		}
	}
	to->count = from->count;
	to->fresh = from->fresh;
	to->freed = from->freed;
	to->oldest = from->oldest;
	to->newest = from->newest;
}

#endif /* NET_FLOW_TABLE_H */
