/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_NET_INET_ECN_H
#define TESTS_NET_INET_ECN_H

#define INET_ECN_MASK 3

#endif /* TESTS_NET_INET_ECN_H */
