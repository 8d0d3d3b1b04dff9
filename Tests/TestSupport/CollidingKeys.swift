package import BlobRecord

/// Two keys whose file names have one digest, e3640120b636eaf7, in every naming but sha256, and lie in one subdirectory.
///
/// Found with the distinguished points of P. C. van Oorschot and M. J. Wiener ("Parallel Collision Search with
/// Cryptanalytic Applications"). Two threads iterated x -> FNV-1a("k-" and 13 digits of base 32 of x), and kept the
/// values that end in 21 zero bits. After 1.2 billion steps, in under a minute, two paths led to one value.
package enum CollidingKeys {
  package static let first: BlobKey = "k-lki53jhh2lscn"
  package static let second: BlobKey = "k-ywrxhecu6cpui"
}
