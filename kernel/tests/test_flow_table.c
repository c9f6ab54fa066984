// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/flow_table.h. */
#include "check.h"

#include <stdlib.h>

#include <net/flow_table.h>

struct record {
	struct flow_entry entry;
	u32 mine;
};

static struct flow_hash hash;

static struct flow_key key_of(u32 number)
{
	struct flow_key key;

	flow_key_none(&key);
	key.version = 4;
	key.ipv4.source = number;
	return key;
}

/* A table over memory of exactly the size that is asked for: the sanitizer watches its ends. */
static struct flow_table table_of(u32 capacity, bool ordered)
{
	struct flow_table t;

	flow_table_init(&t, calloc(1, flow_table_bytes(capacity, sizeof(struct record), ordered)),
			capacity, sizeof(struct record), ordered);
	return t;
}

static u32 find(const struct flow_table *t, u32 number)
{
	struct flow_key key = key_of(number);

	return flow_table_find(t, &key, flow_key_hash(&hash, &key));
}

static u32 insert(struct flow_table *t, u32 number)
{
	struct flow_key key = key_of(number);

	return flow_table_insert(t, &key, flow_key_hash(&hash, &key));
}

static u32 *mine(const struct flow_table *t, u32 index)
{
	return &((struct record *)flow_table_record(t, index))->mine;
}

static void memory_is_what_the_parts_take(void)
{
	static const struct {
		u32 capacity, record;
		bool ordered;
		u64 bytes;
	} rows[] = {
		{ 1, 48, false, 48 + 4 },
		{ 1, 49, false, 56 + 4 },
		{ 1, 56, true, 56 + 8 + 4 },
		{ 2, 48, false, 2 * 48 + 2 * 4 },
		{ 3, 48, false, 3 * 48 + 4 * 4 },
		{ 4, 64, true, 4 * 64 + 4 * 8 + 4 * 4 },
		{ 5, 64, true, 5 * 64 + 5 * 8 + 8 * 4 },
		{ 65536, 64, false, 65536 * 68 },
		{ FLOW_TABLE_CAPACITY_MAX, 1000, true, (1ULL << 24) * 1012 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ROW("row %zu", i);
		CHECK_EQ(flow_table_bytes(rows[i].capacity, rows[i].record, rows[i].ordered),
			 rows[i].bytes);
	}
	CHECK_EQ(sizeof(struct flow_entry), 48);
}

static void what_was_inserted_is_found_until_it_is_removed(void)
{
	struct flow_table t = table_of(3, false);
	u32 a, b, c;

	CHECK_EQ(find(&t, 1), FLOW_TABLE_NONE);
	a = insert(&t, 1);
	b = insert(&t, 2);
	c = insert(&t, 3);
	CHECK(a < 3 && b < 3 && c < 3 && a != b && b != c && a != c);
	CHECK_EQ(t.count, 3);
	CHECK_EQ(find(&t, 1), a);
	CHECK_EQ(find(&t, 2), b);
	CHECK_EQ(find(&t, 3), c);
	CHECK_EQ(insert(&t, 4), FLOW_TABLE_NONE);
	CHECK_EQ(t.count, 3);
	CHECK_EQ(find(&t, 4), FLOW_TABLE_NONE);

	flow_table_remove(&t, b);
	CHECK_EQ(t.count, 2);
	CHECK_EQ(find(&t, 2), FLOW_TABLE_NONE);
	CHECK_EQ(find(&t, 1), a);
	CHECK_EQ(find(&t, 3), c);
	CHECK_EQ(insert(&t, 4), b);
	CHECK_EQ(find(&t, 4), b);
	free(t.records);
}

static void flows_that_share_a_hash_are_told_apart(void)
{
	struct flow_table t = table_of(4, false);
	struct flow_key keys[4];
	u32 index[4];

	for (u32 i = 0; i < 4; i++) {
		keys[i] = key_of(i);
		index[i] = flow_table_insert(&t, &keys[i], 5);
	}
	for (u32 i = 0; i < 4; i++)
		CHECK_EQ(flow_table_find(&t, &keys[i], 5), index[i]);
	CHECK_EQ(flow_table_find(&t, &keys[0], 1), FLOW_TABLE_NONE);	/* of the same chain */
	flow_table_remove(&t, index[1]);	/* from the middle */
	flow_table_remove(&t, index[3]);	/* from the head */
	flow_table_remove(&t, index[0]);	/* from the end */
	CHECK_EQ(flow_table_find(&t, &keys[0], 5), FLOW_TABLE_NONE);
	CHECK_EQ(flow_table_find(&t, &keys[2], 5), index[2]);
	free(t.records);
}

static void the_short_form_of_ipv4_finds_the_same(void)
{
	struct flow_table t = table_of(3, false);

	for (u32 i = 0; i < 3; i++) {
		struct flow_key key = key_of(i);
		struct flow_ipv4 flow = { key.word[0], key.word[1], key.pair[1] };

		CHECK_EQ(flow_table_find_ipv4(&t, &flow, 5, t.stride), FLOW_TABLE_NONE);
		CHECK_EQ(flow_table_insert(&t, &key, 5), i);
		CHECK_EQ(flow_table_find_ipv4(&t, &flow, 5, t.stride), i);
	}
	free(t.records);
}

static void the_users_part_is_left_alone(void)
{
	struct flow_table t = table_of(2, false);
	u32 a = insert(&t, 1);

	CHECK_EQ(*mine(&t, a), 0);
	*mine(&t, a) = 17;
	flow_table_remove(&t, a);
	CHECK_EQ(insert(&t, 2), a);
	CHECK_EQ(*mine(&t, a), 17);
	free(t.records);
}

/* expected: numbers from the oldest to the newest, up to 0. */
static void check_order(const struct flow_table *t, const u32 *expected)
{
	u32 newer = flow_table_oldest(t), older = FLOW_TABLE_NONE;

	for (; *expected; expected++) {
		CHECK_EQ(newer, find(t, *expected));
		if (newer == FLOW_TABLE_NONE)
			return;
		CHECK_EQ(t->order[newer].older, older);
		older = newer;
		newer = flow_table_newer(t, newer);
	}
	CHECK_EQ(newer, FLOW_TABLE_NONE);
	CHECK_EQ(t->newest, older);
}

static void order_is_that_of_use(void)
{
	static const struct {
		char what;	/* insert, touch, remove */
		u32 number;
		u32 order[5];
	} steps[] = {
		{ 'i', 1, { 1 } },
		{ 't', 1, { 1 } },
		{ 'i', 2, { 1, 2 } },
		{ 'i', 3, { 1, 2, 3 } },
		{ 't', 3, { 1, 2, 3 } },
		{ 't', 2, { 1, 3, 2 } },
		{ 't', 1, { 3, 2, 1 } },
		{ 'i', 4, { 3, 2, 1, 4 } },
		{ 'r', 2, { 3, 1, 4 } },
		{ 'r', 3, { 1, 4 } },
		{ 'r', 4, { 1 } },
		{ 'i', 5, { 1, 5 } },
		{ 'r', 1, { 5 } },
		{ 'r', 5, { 0 } },
		{ 'i', 6, { 6 } },
	};
	struct flow_table t = table_of(4, true);

	CHECK_EQ(flow_table_oldest(&t), FLOW_TABLE_NONE);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		ROW("step %zu", i);
		if (steps[i].what == 'i')
			insert(&t, steps[i].number);
		else if (steps[i].what == 't')
			flow_table_touch(&t, find(&t, steps[i].number));
		else
			flow_table_remove(&t, find(&t, steps[i].number));
		check_order(&t, steps[i].order);
	}
	free(t.records);
}

static void a_cleared_table_is_empty(void)
{
	static const u32 nothing[] = { 0 };
	struct flow_table t = table_of(2, true);

	flow_table_clear(&t);
	CHECK_EQ(t.count, 0);
	insert(&t, 1);
	insert(&t, 2);
	flow_table_clear(&t);
	CHECK_EQ(t.count, 0);
	CHECK_EQ(find(&t, 1), FLOW_TABLE_NONE);
	check_order(&t, nothing);
	CHECK(insert(&t, 3) < 2);
	CHECK(insert(&t, 4) < 2);
	CHECK_EQ(insert(&t, 5), FLOW_TABLE_NONE);
	free(t.records);
}

static void a_moved_table_keeps_indices_parts_and_order(void)
{
	static const u32 order[] = { 3, 4, 1, 0 };

	for (int ordered = 0; ordered <= 1; ordered++) {
		struct flow_table from = table_of(4, ordered), to = table_of(1000, ordered);
		u32 at[6];

		ROW("ordered %d", ordered);
		for (u32 i = 1; i <= 4; i++) {
			at[i] = insert(&from, i);
			*mine(&from, at[i]) = 100 + i;
		}
		flow_table_remove(&from, at[2]);
		if (ordered)
			flow_table_touch(&from, at[1]);
		flow_table_move(&to, &from);
		free(from.records);

		CHECK_EQ(to.count, 3);
		CHECK_EQ(to.capacity, 1000);
		CHECK_EQ(find(&to, 2), FLOW_TABLE_NONE);
		for (u32 i = 1; i <= 4; i++)
			if (i != 2) {
				CHECK_EQ(find(&to, i), at[i]);
				CHECK_EQ(*mine(&to, at[i]), 100 + i);
			}
		if (ordered)
			check_order(&to, order);
		CHECK_EQ(insert(&to, 5), at[2]);	/* the free one, then fresh ones */
		CHECK_EQ(insert(&to, 6), 4);
		free(to.records);
	}
}

/* Any sequence of operations beside an array of who is in, over tables of 1 to 64 records. */
static void a_long_random_use_agrees_with_a_list(void)
{
	u64 state = 42;

	for (u32 capacity = 1; capacity <= 64; capacity *= 2) {
		struct flow_table t = table_of(capacity, true);
		u32 at[128], in = 0;

		ROW("capacity %u", capacity);
		memset(at, 0xff, sizeof(at));
		for (int step = 0; step < 20000; step++) {
			u32 number, before;

			state = state * 6364136223846793005ULL + 1442695040888963407ULL;
			number = (state >> 33) % 128;
			before = find(&t, number);
			CHECK_EQ(before, at[number]);
			if (before != FLOW_TABLE_NONE && state >> 63) {
				flow_table_remove(&t, before);
				at[number] = FLOW_TABLE_NONE;
				in--;
			} else if (before == FLOW_TABLE_NONE) {
				at[number] = insert(&t, number);
				CHECK_EQ(at[number] == FLOW_TABLE_NONE, in == capacity);
				in += at[number] != FLOW_TABLE_NONE;
			}
			CHECK_EQ(t.count, in);
		}
		free(t.records);
	}
}

int main(void)
{
	flow_hash_init(&hash, 2024);
	RUN(memory_is_what_the_parts_take);
	RUN(what_was_inserted_is_found_until_it_is_removed);
	RUN(flows_that_share_a_hash_are_told_apart);
	RUN(the_short_form_of_ipv4_finds_the_same);
	RUN(the_users_part_is_left_alone);
	RUN(order_is_that_of_use);
	RUN(a_cleared_table_is_empty);
	RUN(a_moved_table_keeps_indices_parts_and_order);
	RUN(a_long_random_use_agrees_with_a_list);
	return check_finish();
}
