/// What became of the objects of many keys in a remote tier.
public struct RemotePrefixRemoval: Hashable, Sendable {
  public internal(set) var removed = 0
  /// Those that the engine has not taken yet, or that were dropped: events tell of these.
  public internal(set) var left = 0
  /// Objects whose names do not tell their keys, as those of very long keys. They stay.
  public internal(set) var unknown = 0
}
