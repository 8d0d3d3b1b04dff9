/// The answer of a look that never waits.
package enum CachedAnswer<Value: Sendable>: Sendable {
  /// What the ordinary look answers too; nil if there is no live record.
  case known(Value?)
  /// The ordinary look must tell.
  case unknown
}
