// SPDX-License-Identifier: GPL-2.0
/* Max-min fair division: by hand, at the edges of its digits, and against the definition. */
#include <stdlib.h>

#include <net/max_min.h>

#include "check.h"

#define NUMBER 6

static struct max_min level;
static int rounds;

static u32 level_of(u64 capacity, const u32 *demands, u32 number)
{
	u32 i;

	rounds = 0;
	max_min_begin(&level, capacity);
	do {
		for (i = 0; i < number; i++)
			max_min_add(&level, demands[i]);
		rounds++;
	} while (max_min_round(&level));
	return level.level;
}

static u64 taken(u64 at, const u32 *demands, u32 number)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < number; i++)
		sum += demands[i] < at ? demands[i] : at;
	return sum;
}

/* The definition: the largest level that fits, or none if all do. */
static void check_definition(u64 capacity, const u32 *demands, u32 number)
{
	u32 found = level_of(capacity, demands, number);

	CHECK(rounds <= 4);
	if (taken(1ULL << 32, demands, number) <= capacity) {
		CHECK_EQ(found, ~0U);
		return;
	}
	CHECK(taken(found, demands, number) <= capacity);
	CHECK(taken((u64)found + 1, demands, number) > capacity);
}

static void shares(void)
{
	static const struct {
		u64 capacity;
		u32 demands[NUMBER];
		u32 shares[NUMBER];
	} table[] = {
		{ 0, { 1, 2, 3, 4, 5, 6 }, { 0, 0, 0, 0, 0, 0 } },
		{ 5, { 1, 2, 3, 4, 5, 6 }, { 0, 0, 0, 0, 0, 0 } },
		{ 6, { 1, 2, 3, 4, 5, 6 }, { 1, 1, 1, 1, 1, 1 } },
		{ 16, { 1, 2, 3, 4, 5, 6 }, { 1, 2, 3, 3, 3, 3 } },
		{ 20, { 1, 2, 3, 4, 5, 6 }, { 1, 2, 3, 4, 5, 5 } },
		{ 21, { 1, 2, 3, 4, 5, 6 }, { 1, 2, 3, 4, 5, 6 } },
		{ 22, { 1, 2, 3, 4, 5, 6 }, { 1, 2, 3, 4, 5, 6 } },
		{ 100, { 0, 0, 90, 90, 0, 0 }, { 0, 0, 50, 50, 0, 0 } },
		{ 296000, { 5000, 5000, 200000, 200000, 5000, 5000 },
		  { 5000, 5000, 138000, 138000, 5000, 5000 } },
		/* a share in the same bucket as demands, in each of the four digits */
		{ 0x1800000, { 0x1800001, 0, 0, 0, 0, 0 }, { 0x1800000, 0, 0, 0, 0, 0 } },
		{ 0x10000, { 0x10001, 0, 0, 0, 0, 0 }, { 0x10000, 0, 0, 0, 0, 0 } },
		{ 0x1fe, { 0xff, 0x100, 0, 0, 0, 0 }, { 0xff, 0xff, 0, 0, 0, 0 } },
		{ 0xfffffffeULL, { ~0U, 0, 0, 0, 0, 0 }, { ~0U - 1, 0, 0, 0, 0, 0 } },
		{ 6 * 0xffffffffULL, { ~0U, ~0U, ~0U, ~0U, ~0U, ~0U },
		  { ~0U, ~0U, ~0U, ~0U, ~0U, ~0U } },
		{ 6 * 0xffffffffULL - 1, { ~0U, ~0U, ~0U, ~0U, ~0U, ~0U },
		  { ~0U - 1, ~0U - 1, ~0U - 1, ~0U - 1, ~0U - 1, ~0U - 1 } },
	};
	u32 row, i;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("row %u", row);
		level_of(table[row].capacity, table[row].demands, NUMBER);
		for (i = 0; i < NUMBER; i++)
			CHECK_EQ(max_min_share(&level, table[row].demands[i]),
				 table[row].shares[i]);
		check_definition(table[row].capacity, table[row].demands, NUMBER);
	}
}

static void nobody(void)
{
	CHECK_EQ(level_of(100, NULL, 0), ~0U);
	CHECK_EQ(level_of(0, NULL, 0), ~0U);
}

/* Demands that a division which settles one demand at a time needs as many rounds for. */
static void powers_of_two(void)
{
	u32 demands[32], i;
	u64 capacity;

	for (i = 0; i < 32; i++)
		demands[i] = 1U << i;
	for (capacity = 1; capacity < 1ULL << 32; capacity = capacity * 5 / 3 + 1) {
		ROW("capacity %llu", (unsigned long long)capacity);
		check_definition(capacity, demands, 32);
	}
}

static void random_demands(void)
{
	static u32 demands[1000];
	u32 trial, number, i, bits;
	u64 total;

	srandom(1);
	for (trial = 0; trial < 3000; trial++) {
		ROW("trial %u", trial);
		number = 1 + (u32)random() % (trial % 10 ? 20 : 1000);
		bits = 1 + (u32)random() % 32;
		for (i = 0, total = 0; i < number; i++) {
			demands[i] = ((u32)random() << 1 ^ (u32)random()) >> (32 - bits);
			total += demands[i];
		}
		check_definition((u64)random() * (u64)random() % (total + 2), demands, number);
	}
}

int main(void)
{
	RUN(shares);
	RUN(nobody);
	RUN(powers_of_two);
	RUN(random_demands);
	return check_finish();
}
