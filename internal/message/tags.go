package message

import "unicode/utf8"

// TagsCode is the tags code of a consume queue entry: Java's String.hashCode
// of the TAGS property over its UTF-16 units, sign-extended, as RocketMQ
// `MessageExtBrokerInner.tagsString2tagsCode`. "" (no tag) gives 0. Different
// tags may share a code, so whoever filters compares the tag itself afterwards.
func TagsCode(tags string) int64 {
	var h int32
	for i := 0; i < len(tags); i++ {
		c := tags[i]
		if c >= utf8.RuneSelf {
			return int64(hashUTF16(h, tags[i:]))
		}
		h = 31*h + int32(c)
	}
	return int64(h)
}

// hashUTF16 goes on with h over s, whose runes above the basic plane count as
// two units. Bytes that are no UTF-8 count as U+FFFD, which Java reads them as.
func hashUTF16(h int32, s string) int32 {
	for _, r := range s {
		if r < 0x10000 {
			h = 31*h + r
			continue
		}
		r -= 0x10000
		h = 31*h + (0xd800 + r>>10)
		h = 31*h + (0xdc00 + r&0x3ff)
	}
	return h
}
