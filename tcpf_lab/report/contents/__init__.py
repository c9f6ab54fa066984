"""What a report says: worked out from the numbers, free of any markup."""
