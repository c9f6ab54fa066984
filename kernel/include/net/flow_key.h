/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a flow is: the exact 5-tuple, and a seeded hash of it.
 *
 * TCP and UDP: addresses, protocol and ports. Every other protocol, and every fragment: addresses
 * and protocol, ports 0. That goes for the first fragment too, which alone has the ports: all
 * fragments of a datagram belong together. A packet that is not IP has the key with nothing in it,
 * so that all of these make one flow.
 *
 * Addresses and ports are kept as they stand in the packet: nothing here computes with them. An
 * unused field is 0: keys are compared and hashed as words.
 */

#ifndef _NET_FLOW_KEY_H
#define _NET_FLOW_KEY_H

#include <linux/string.h>
#include <linux/types.h>

#define FLOW_KEY_WORDS 10

struct flow_key {
	union {
		struct {
			__be16 source_port;
			__be16 destination_port;
			u8 version; /* 4, 6; 0: not IP */
			u8 protocol;
			u16 zero;
			__be32 source[4]; /* IPv4: the first only */
			__be32 destination[4];
		};
		u32 word[FLOW_KEY_WORDS];
	};
};

/* Not IP, or too damaged to tell. */
static inline void flow_key_none(struct flow_key *key)
{
	memset(key, 0, sizeof(*key));
}

/* addresses: where the source address starts in the IPv4 header; the destination follows it. */
static inline void flow_key_ipv4(struct flow_key *key, u8 protocol, const void *addresses)
{
	flow_key_none(key);
	key->version = 4;
	key->protocol = protocol;
	memcpy(key->source, addresses, 4);
	memcpy(key->destination, (const u8 *)addresses + 4, 4);
}

/* addresses: likewise in the IPv6 header; protocol: the upper layer's, behind extension headers. */
static inline void flow_key_ipv6(struct flow_key *key, u8 protocol, const void *addresses)
{
	flow_key_none(key);
	key->version = 6;
	key->protocol = protocol;
	memcpy(key->source, addresses, 16);
	memcpy(key->destination, (const u8 *)addresses + 16, 16);
}

/* ports: the first four bytes of a TCP or UDP header. */
static inline void flow_key_ports(struct flow_key *key, const void *ports)
{
	memcpy(&key->source_port, ports, 2);
	memcpy(&key->destination_port, (const u8 *)ports + 2, 2);
}

/* The key of the other direction of the same connection. */
static inline void flow_key_reverse(struct flow_key *to, const struct flow_key *from)
{
	to->source_port = from->destination_port;
	to->destination_port = from->source_port;
	to->version = from->version;
	to->protocol = from->protocol;
	to->zero = 0;
	memcpy(to->source, from->destination, sizeof(to->source));
	memcpy(to->destination, from->source, sizeof(to->destination));
}

static inline bool flow_key_equal(const struct flow_key *a, const struct flow_key *b)
{
	u32 difference = (a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) |
			 (a->word[2] ^ b->word[2]) | (a->word[6] ^ b->word[6]);

	if (difference)
		return false;
	if (a->version != 6)
		return true; /* the other words of both are 0 */
	return !memcmp(&a->word[3], &b->word[3], 3 * sizeof(u32)) &&
	       !memcmp(&a->word[7], &b->word[7], 3 * sizeof(u32));
}

/*
 * Multilinear hashing (Carter and Wegman; Lemire and Kaser, "Strongly universal string hashing is
 * fast", 2014), one multiplication per word, the zeros of an IPv4 key left out:
 *
 *	sum = key[0] + sum of key[i + 1] word[i]		mod 2^64
 *
 * Two flows that are chosen without knowing the key collide as rarely as random ones. But it is
 * linear: flows with ports in sequence make an arithmetic progression, which some keys fold onto
 * few chains. So the sum is mixed once more, by a step that maps different sums to different ones.
 */
struct flow_hash {
	u64 key[FLOW_KEY_WORDS + 1];
};

/*
 * A seed expanded by splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014.
 */
static inline void flow_hash_init(struct flow_hash *h, u64 seed)
{
	u32 i;

	for (i = 0; i <= FLOW_KEY_WORDS; i++) {
		u64 z;

		seed += 0x9e3779b97f4a7c15ULL;
		z = seed;
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		h->key[i] = z ^ (z >> 31);
	}
}

static inline u32 flow_key_hash(const struct flow_hash *h, const struct flow_key *key)
{
	const u32 *w = key->word;
	const u64 *k = h->key + 1;
	u64 sum = h->key[0] + k[0] * w[0] + k[1] * w[1] + k[2] * w[2] + k[6] * w[6];

	if (key->version == 6)
		sum += k[3] * w[3] + k[4] * w[4] + k[5] * w[5] +
		       k[7] * w[7] + k[8] * w[8] + k[9] * w[9];
	sum = (sum ^ sum >> 32) * 0xbf58476d1ce4e5b9ULL;
	return sum >> 32;
}

#endif
