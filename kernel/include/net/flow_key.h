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

#ifndef NET_FLOW_KEY_H
#define NET_FLOW_KEY_H

#include <linux/string.h>
#include <linux/types.h>

#define FLOW_KEY_WORDS 10

struct flow_key {
	union {
		struct {
			__be16 source_port;
			__be16 destination_port;
			u8 version;		/* 4, 6; 0: not IP */
			u8 protocol;
			u16 zero;
			union {
				struct {
					__be32 source;
					__be32 destination;
				} ipv4;
				struct {
					__be32 source[4];
					__be32 destination[4];
				} ipv6;
			};
		};
		u32 word[FLOW_KEY_WORDS];
		u64 pair[FLOW_KEY_WORDS / 2];
	};
};

/* The part of an IPv4 key that is not 0: few enough words to stay in registers. */
struct flow_ipv4 {
	u32 ports;		/* word[0] */
	u32 kind;		/* word[1]: flow_key_kind() */
	u64 addresses;		/* pair[1] */
};

/* word[1]: what kind of packets a flow has. */
static inline u32 flow_key_kind(u8 version, u8 protocol)
{
	struct flow_key key = { .version = version, .protocol = protocol };

	return key.word[1];
}

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
	memcpy(&key->ipv4, addresses, 8);
}

/* addresses: likewise in the IPv6 header; protocol: the upper layer's, behind extension headers. */
static inline void flow_key_ipv6(struct flow_key *key, u8 protocol, const void *addresses)
{
	flow_key_none(key);
	key->version = 6;
	key->protocol = protocol;
	memcpy(&key->ipv6, addresses, 32);
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
	*to = *from;
	to->source_port = from->destination_port;
	to->destination_port = from->source_port;
	if (from->version == 6) {
		memcpy(to->ipv6.source, from->ipv6.destination, 16);
		memcpy(to->ipv6.destination, from->ipv6.source, 16);
	} else {
		to->ipv4.source = from->ipv4.destination;
		to->ipv4.destination = from->ipv4.source;
	}
}

/* Only what is read of an IPv4 key: the rest stays as it is. */
static inline void flow_key_set_ipv4(struct flow_key *key, const struct flow_ipv4 *flow)
{
	key->word[0] = flow->ports;
	key->word[1] = flow->kind;
	key->pair[1] = flow->addresses;
}

static inline bool flow_key_is_ipv4(const struct flow_key *key, const struct flow_ipv4 *flow)
{
	return key->pair[1] == flow->addresses && key->word[0] == flow->ports &&
	       key->word[1] == flow->kind;
}

static inline bool flow_key_equal(const struct flow_key *a, const struct flow_key *b)
{
	if ((a->pair[0] ^ b->pair[0]) | (a->pair[1] ^ b->pair[1]))
		return false;
	if (a->version != 6)
		return true;	/* nothing else belongs to the key */
	return !((a->pair[2] ^ b->pair[2]) | (a->pair[3] ^ b->pair[3]) |
		 (a->pair[4] ^ b->pair[4]));
}

/*
 * NH hashing (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and secure message
 * authentication", 1999), one multiplication per pair of words, the zeros of an IPv4 key left out:
 *
 *	sum of (word[2i] + key[2i] mod 2^32) (word[2i + 1] + key[2i + 1] mod 2^32)	mod 2^64
 *
 * Two flows that are chosen without knowing the key have the same sum with probability 2^-32. But
 * it is nearly linear: ports in sequence make sums in sequence, which some keys fold onto few
 * chains. So the sum is mixed once more, by a bijection of 64 bits, of which the upper half is the
 * hash: two different sums share it with a probability of about 2^-32 again.
 */
struct flow_hash {
	u32 key[FLOW_KEY_WORDS];
};

/*
 * A seed expanded by splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014.
 */
static inline void flow_hash_init(struct flow_hash *h, u64 seed)
{
	u32 i;

	for (i = 0; i < FLOW_KEY_WORDS; i++) {
		u64 z;

		seed += 0x9e3779b97f4a7c15ULL;
		z = seed;
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		h->key[i] = (z ^ (z >> 31)) >> 32;
	}
}

static inline u32 flow_hash_mix(u64 sum)
{
	return ((sum ^ sum >> 32) * 0xbf58476d1ce4e5b9ULL) >> 32;
}

/* The terms of an IPv4 key. */
static inline u64 flow_hash_sum(const struct flow_hash *h, u32 ports, u32 kind, u64 addresses)
{
	const u32 *k = h->key;

	return (u64)(ports + k[0]) * (kind + k[1]) +
	       (u64)((u32)addresses + k[2]) * ((u32)(addresses >> 32) + k[3]);
}

static inline u32 flow_hash_ipv4(const struct flow_hash *h, const struct flow_ipv4 *flow)
{
	return flow_hash_mix(flow_hash_sum(h, flow->ports, flow->kind, flow->addresses));
}

static inline u32 flow_key_hash(const struct flow_hash *h, const struct flow_key *key)
{
	u64 sum = flow_hash_sum(h, key->word[0], key->word[1], key->pair[1]);
	const u32 *w = key->word, *k = h->key;
	u32 i;

	if (key->version == 6)
		for (i = 4; i < FLOW_KEY_WORDS; i += 2)
			sum += (u64)(w[i] + k[i]) * (w[i + 1] + k[i + 1]);
	return flow_hash_mix(sum);
}

#endif /* NET_FLOW_KEY_H */
