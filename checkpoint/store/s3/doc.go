// Package s3 keeps checkpoint objects in a bucket of Amazon S3, or of any
// service that speaks its protocol. It runs in the gateway, which signs for the
// machines; a machine has package signed and no key.
//
// # Conditional writes
//
// A put carries If-None-Match: *, so that of several writers of one name exactly
// one wins and the others are answered 412. Amazon S3 has had this since August
// 2024; Cloudflare R2, CoreWeave AI Object Storage, MinIO, Ceph RGW and versitygw
// have it too. A service may ignore the header and say nothing: [Store.Probe]
// puts one name twice and tells.
//
// A service without it needs [Config.Unconditional]. A put then looks first and
// writes after, and what is lost is exactly this: two writers of one name at the
// same time may both be told that they won, and the later one's bytes stay; and
// a signed put can replace an object until the signature ends. No checkpoint can
// be torn by it. The name of a chunk, a pack and a manifest contains the hash of
// its bytes, so two honest writers of one name write the same bytes, one object
// is replaced whole by another, and a dishonest or damaged one is found by its
// hash at the restore. Which checkpoints exist is what the job's record says, and
// that is never kept here.
//
// A put that meets another of the same name in flight may be answered 409. The
// object is then looked at: it is there (ErrExists), or the put may be repeated.
//
// # What the bucket needs
//
// The rights s3:GetObject, s3:PutObject, s3:DeleteObject on its objects and
// s3:ListBucket on itself; without the last, Amazon answers 403 for an object
// that is missing, and nothing can be told apart. Objects beyond [Config.Part]
// are put in parts: a lifecycle rule that aborts incomplete multipart uploads
// after a day removes what a killed process leaves, which no list shows.
// Versioning must be off, or deleted checkpoints are paid for and kept.
package s3
