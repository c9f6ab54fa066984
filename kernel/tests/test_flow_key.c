// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/flow_key.h. */
#include "check.h"

#include <net/flow_key.h>

static const u8 addresses[32] = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
};
static const u8 ports[4] = { 0x12, 0x34, 0xab, 0xcd };

static struct flow_key key_of(u8 version)
{
	struct flow_key key;

	memset(&key, 0xee, sizeof(key));
	if (version == 4)
		flow_key_ipv4(&key, 6, addresses);
	else if (version == 6)
		flow_key_ipv6(&key, 17, addresses);
	else
		flow_key_none(&key);
	if (version)
		flow_key_ports(&key, ports);
	return key;
}

static void a_key_holds_what_the_headers_hold(void)
{
	struct flow_key v4 = key_of(4), v6 = key_of(6), none = key_of(0);
	static const u8 nothing[sizeof(none)];

	CHECK_EQ(sizeof(struct flow_key), 40);
	CHECK(!memcmp(&none, nothing, sizeof(none)));
	CHECK_EQ(v4.version, 4);
	CHECK_EQ(v4.protocol, 6);
	CHECK(!memcmp(&v4.ipv4.source, addresses, 4));
	CHECK(!memcmp(&v4.ipv4.destination, addresses + 4, 4));
	CHECK(!memcmp(&v4.pair[2], nothing, 24));
	CHECK_EQ(v4.zero, 0);
	CHECK(!memcmp(&v4.source_port, ports, 2));
	CHECK(!memcmp(&v4.destination_port, ports + 2, 2));
	CHECK_EQ(v6.version, 6);
	CHECK_EQ(v6.protocol, 17);
	CHECK_EQ(v6.zero, 0);
	CHECK(!memcmp(v6.ipv6.source, addresses, 16));
	CHECK(!memcmp(v6.ipv6.destination, addresses + 16, 16));
}

static void a_key_reversed_is_that_of_the_other_direction(void)
{
	static const u8 back[32] = {
		17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	};
	static const u8 ports_back[4] = { 0xab, 0xcd, 0x12, 0x34 };
	struct flow_key there = key_of(6), reverse, expected, again;

	memset(&reverse, 0xee, sizeof(reverse));
	flow_key_reverse(&reverse, &there);
	flow_key_ipv6(&expected, 17, back);
	flow_key_ports(&expected, ports_back);
	CHECK(!memcmp(&reverse, &expected, sizeof(expected)));
	CHECK(!flow_key_equal(&reverse, &there));
	flow_key_reverse(&again, &reverse);
	CHECK(flow_key_equal(&again, &there));

	there = key_of(4);
	flow_key_reverse(&reverse, &there);
	CHECK(reverse.ipv4.source == there.ipv4.destination);
	CHECK(reverse.ipv4.destination == there.ipv4.source);
	CHECK(reverse.source_port == there.destination_port);
	flow_key_reverse(&again, &reverse);
	CHECK(!memcmp(&again, &there, sizeof(there)));
}

static void the_short_form_of_ipv4_says_the_same(void)
{
	struct flow_key key = key_of(4), other;
	struct flow_ipv4 flow = {
		.ports = key.word[0],
		.kind = flow_key_kind(4, 6),
		.addresses = key.pair[1],
	};
	struct flow_hash h;

	flow_hash_init(&h, 3);
	CHECK_EQ(flow_hash_ipv4(&h, &flow), flow_key_hash(&h, &key));
	CHECK(flow_key_is_ipv4(&key, &flow));
	memset(&other, 0xee, sizeof(other));
	flow_key_set_ipv4(&other, &flow);
	CHECK(flow_key_equal(&other, &key));
	CHECK_EQ(flow_key_hash(&h, &other), flow_key_hash(&h, &key));
	for (int byte = 0; byte < 16; byte++) {
		ROW("byte %d", byte);
		other = key;
		((u8 *)&other)[byte] ^= 1;
		CHECK(!flow_key_is_ipv4(&other, &flow));
	}
	other = key_of(6);
	CHECK(!flow_key_is_ipv4(&other, &flow));
}

/* Bytes of a key that mean something for its version. */
static bool is_used(u8 version, size_t byte)
{
	return version == 6 || byte < 16;
}

static void keys_differ_in_each_byte_and_so_do_their_hashes(void)
{
	struct flow_hash h;

	flow_hash_init(&h, 1);
	for (u8 version = 4; version <= 6; version += 2)
		for (size_t byte = 0; byte < sizeof(struct flow_key); byte++) {
			struct flow_key a = key_of(version), b = a;

			if (!is_used(version, byte))
				continue;
			ROW("IPv%d, byte %zu", version, byte);
			CHECK(flow_key_equal(&a, &b));
			CHECK_EQ(flow_key_hash(&h, &a), flow_key_hash(&h, &b));
			((u8 *)&b)[byte] ^= 0x80;
			CHECK(!flow_key_equal(&a, &b));
			CHECK(flow_key_hash(&h, &a) != flow_key_hash(&h, &b));
		}
}

static void the_seed_decides_who_collides(void)
{
	struct flow_key a = key_of(4), b = a;
	struct flow_hash one, same, other;

	b.source_port ^= 1;
	flow_hash_init(&one, 7);
	flow_hash_init(&same, 7);
	flow_hash_init(&other, 8);
	CHECK(!memcmp(&one, &same, sizeof(one)));
	CHECK(flow_key_hash(&one, &a) != flow_key_hash(&other, &a));
	CHECK((flow_key_hash(&one, &a) ^ flow_key_hash(&one, &b)) !=
	      (flow_key_hash(&other, &a) ^ flow_key_hash(&other, &b)));
}

/* splitmix64 from the seed 1234567, as published with its reference code. */
static void the_seed_is_expanded_by_splitmix64(void)
{
	struct flow_hash h;

	flow_hash_init(&h, 1234567);
	CHECK_EQ(h.key[0], 6457827717110365317ULL >> 32);
	CHECK_EQ(h.key[1], 3203168211198807973ULL >> 32);
	CHECK_EQ(h.key[4], 16408922859458223821ULL >> 32);
}

/* 65536 flows of neighbouring ports, as many chains: random ones have a mean square length of 2. */
static void neighbouring_flows_spread_over_chains(void)
{
	static u32 chain[65536];

	for (u64 seed = 0; seed < 4; seed++) {
		struct flow_key key = key_of(4);
		struct flow_hash h;
		u64 squares = 0;
		u32 longest = 0;

		ROW("seed %llu", (unsigned long long)seed);
		memset(chain, 0, sizeof(chain));
		flow_hash_init(&h, seed);
		for (u32 i = 0; i < 65536; i++) {
			u8 number[4] = { i >> 8, i, 0x13, 0x89 };

			flow_key_ports(&key, number);
			chain[flow_key_hash(&h, &key) & 0xffff]++;
		}
		for (u32 i = 0; i < 65536; i++) {
			squares += (u64)chain[i] * chain[i];
			longest = chain[i] > longest ? chain[i] : longest;
		}
		CHECK(squares < 2 * 65536 * 5 / 4);
		CHECK(longest <= 16);
	}
}

int main(void)
{
	RUN(a_key_holds_what_the_headers_hold);
	RUN(a_key_reversed_is_that_of_the_other_direction);
	RUN(the_short_form_of_ipv4_says_the_same);
	RUN(keys_differ_in_each_byte_and_so_do_their_hashes);
	RUN(the_seed_decides_who_collides);
	RUN(the_seed_is_expanded_by_splitmix64);
	RUN(neighbouring_flows_spread_over_chains);
	return check_finish();
}
