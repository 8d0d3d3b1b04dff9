/// What a remote engine can do besides keeping objects, as a look at it has told.
public struct RemoteCapabilities: Hashable, Sendable, Codable {
  /// A put that may only make an object: one was refused.
  public var conditionalPut = false
  /// A put that may only replace a version that is known: one was refused.
  public var conditionalReplace = false
  /// It drops each object at the end of its life.
  public var expiry = false
  public var lists = false
  /// It removes objects. An engine that does not has been seen to refuse.
  public var removes = true
  /// Objects go there and come from there in pieces, so that none lies in memory whole.
  public var streams = false
  public var leases = false
  public var announcements = false
  /// The bytes of an object that it takes at the most; nil where no limit is known.
  public var largestObject: Int64?
  /// What else a person should know, in sentences.
  public var notes: [String] = []

  public init() {}
}
