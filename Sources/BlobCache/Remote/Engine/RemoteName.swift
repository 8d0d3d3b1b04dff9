public import BlobRecord

/// The name of an object in a remote engine: parts between slashes, none of them empty, `.` or `..`.
///
/// A part may hold any other bytes of UTF-8 but control characters. Engines escape it as their protocol asks.
public struct RemoteName: Hashable, Sendable, CustomStringConvertible {
  public let string: String

  public init(_ string: String) { self.string = string }

  public var description: String { string }

  // By bytes, as keys are: two names of one text in two normal forms are two.
  public static func == (first: RemoteName, second: RemoteName) -> Bool {
    BlobKey(first.string) == BlobKey(second.string)
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(BlobKey(string)) }
}

/// Where the records of a cache lie in a remote engine.
///
/// All machines that share them use one namespace and one naming, whatever the namings of their directories.
public struct RemoteNamespace: Hashable, Sendable {
  /// Parts between slashes, such as `team/app`.
  public let name: String
  /// How keys become names: `encoded`, or `sha256` where keys are private.
  public let naming: RecordNaming

  /// - Parameters:
  ///   - name: parts between slashes, such as `team/app`; none of them empty, `.` or `..`.
  ///   - naming: `encoded` or `sha256`. `verbatim` has no name for many keys.
  public init(_ name: String, naming: RecordNaming = .encoded) {
    self.name = name
    self.naming = naming
  }

  /// The version of the arrangement below, which a later one would not meet.
  static let version = "v1"

  private var layout: RecordLayout { RecordLayout(naming: naming, arrangement: .prefix) }

  /// The object's name of a key, and the digest that its record states.
  ///
  /// - Complexity: O(*n*) for *n* bytes of key.
  /// - Throws: `KeyError` for a key without a name.
  func place(of key: BlobKey) throws(KeyError) -> (name: RemoteName, fileName: String, digest: UInt64) {
    let path = try layout.path(for: key)
    // A file name of one character has no subdirectory, and no name an empty part.
    let directory = path.subdirectory.isEmpty ? "" : "\(path.subdirectory)/"
    let name = "\(prefix)\(directory)\(path.fileName)"
    return (RemoteName(name), path.fileName, path.digest)
  }

  /// On what the machines that share it announce their changes.
  var channel: String { "blobcache/\(name)/\(Self.version)" }

  /// What the names of all its objects begin with.
  var prefix: RemoteName { RemoteName("\(name)/\(Self.version)/") }

  /// What is wrong with the namespace; nil if nothing is.
  package var fault: String? {
    let parts = name.split(separator: "/", omittingEmptySubsequences: false)
    guard !parts.contains(where: { ["", ".", ".."].contains($0) }) else {
      return "the remote namespace \"\(name)\" has an empty part, or one of dots"
    }
    guard name.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else {
      return "the remote namespace \"\(name)\" has spaces or control characters"
    }
    return naming == .verbatim ? "a remote namespace is named encoded or sha256, so that each key has a name" : nil
  }
}

/// Where the record of a key lies remotely, and how it must say so.
struct RemotePlace: Sendable {
  let key: BlobKey
  let name: RemoteName
  /// The digest of the file name, which the header states.
  let digest: UInt64
  /// The key, where the name does not tell it.
  let keptKey: BlobKey?

  /// - Throws: `KeyError` for a key without a name there.
  init(of key: BlobKey, in namespace: RemoteNamespace) throws(KeyError) {
    let place = try namespace.place(of: key)
    self.key = key
    name = place.name
    digest = place.digest
    let keepsKey =
      namespace.naming.keepsKey(ofFileName: place.fileName)
      && key.string.utf8.count <= RecordExtension.maximumKeyByteCount
    keptKey = keepsKey ? key : nil
  }
}
