//! Numbers of 16 and 32 bits out of bytes; a byte that is not there is `None`.

#[inline(always)]
pub fn be16(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

#[inline(always)]
pub fn be32(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// The byte order of the machine that wrote a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    #[inline(always)]
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The 32 bits at an offset that must be there.
    #[inline(always)]
    pub fn u32_at(self, data: &[u8], at: usize) -> u32 {
        self.u32([data[at], data[at + 1], data[at + 2], data[at + 3]])
    }

    /// The 16 bits at an offset that must be there.
    #[inline(always)]
    pub fn u16_at(self, data: &[u8], at: usize) -> u16 {
        self.u16([data[at], data[at + 1]])
    }
}
