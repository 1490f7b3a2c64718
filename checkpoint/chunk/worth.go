package chunk

// Worth says whether encoding shortens the time to get size bytes away. upload
// is the rate of the link and codec that of encoding on the cores that training
// leaves idle, both in bytes per second; ratio is the encoded length by the plain
// one. Encoding and upload overlap, so the slower of the two sets the time, and
// a gain of less than a tenth is not worth the heat. Half of what the codec does
// counts: the same cores read, hash and send meanwhile, and a codec that was only
// as fast as the link was measured to save bytes and no time. A rate that is not
// known is zero, and no reason to encode.
func Worth(size int64, upload, codec float64, ratio float64) bool {
	if size <= 0 || !(upload > 0) || !(codec > 0) || !(ratio > 0) {
		return false
	}
	n := float64(size)
	return max(2*n/codec, ratio*n/upload) < 0.9*n/upload
}
