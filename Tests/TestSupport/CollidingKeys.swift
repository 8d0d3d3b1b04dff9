package import BlobRecord

/// Two keys whose file names have the same digest, e3640120b636eaf7, except with sha256, and the same subdirectory.
///
/// The search used the distinguished points of P. C. van Oorschot and M. J. Wiener ("Parallel Collision Search with
/// Cryptanalytic Applications"). Two threads iterated x -> FNV-1a("k-" and 13 base-32 digits of x) and stored the
/// values that end in 21 zero bits. After 1.2 billion steps, in less than a minute, two paths led to one value.
package enum CollidingKeys {
  package static let first: BlobKey = "k-lki53jhh2lscn"
  package static let second: BlobKey = "k-ywrxhecu6cpui"
}
