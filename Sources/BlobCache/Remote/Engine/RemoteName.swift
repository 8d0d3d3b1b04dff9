public import BlobRecord

/// The name of an object in a remote engine: parts separated by slashes, none of which is empty, `.` or `..`.
///
/// A part may contain any UTF-8 except control characters. Engines escape it as their protocol requires.
public struct RemoteName: Hashable, Sendable, CustomStringConvertible {
  public let string: String

  public init(_ string: String) { self.string = string }

  public var description: String { string }

  // Names are compared by bytes, like keys: two Unicode normal forms of one text are different names.
  public static func == (first: RemoteName, second: RemoteName) -> Bool {
    BlobKey(first.string) == BlobKey(second.string)
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(BlobKey(string)) }
}

/// The location of a cache's records in a remote engine.
///
/// All machines that share the records use the same namespace and naming, whatever naming their directories use.
public struct RemoteNamespace: Hashable, Sendable {
  /// The name: parts separated by slashes, such as `team/app`.
  public let name: String
  /// The naming of objects: `encoded`, or `sha256` if keys are private.
  public let naming: RecordNaming

  /// Creates a namespace.
  ///
  /// - Parameters:
  ///   - name: Parts separated by slashes, such as `team/app`; none of them is empty, `.` or `..`.
  ///   - naming: `encoded` or `sha256`. `verbatim` has no name for many keys.
  public init(_ name: String, naming: RecordNaming = .encoded) {
    self.name = name
    self.naming = naming
  }

  /// The version of the layout in the engine, so that a later layout uses other names.
  static let version = "v1"

  private var layout: RecordLayout { RecordLayout(naming: naming, arrangement: .prefix) }

  /// Returns the name of a key's object, and the digest in its record, in O(*n*) for *n* bytes of key.
  func place(of key: BlobKey) throws(KeyError) -> (name: RemoteName, fileName: String, digest: UInt64) {
    let path = try layout.path(for: key)
    // A file name of one character has no subdirectory, and a name must not contain an empty part.
    let directory = path.subdirectory.isEmpty ? "" : "\(path.subdirectory)/"
    let name = "\(prefix)\(directory)\(path.fileName)"
    return (RemoteName(name), path.fileName, path.digest)
  }

  var channel: String { "blobcache/\(name)/\(Self.version)" }

  var prefix: RemoteName { RemoteName("\(name)/\(Self.version)/") }

  /// A description of the first invalid part, or `nil` if the namespace is valid.
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

/// The location of a key's record in a remote engine, and the identity that the record must state.
struct RemotePlace: Sendable {
  let key: BlobKey
  let name: RemoteName
  let digest: UInt64
  /// The key that the record must contain, or `nil` if the name contains it or it is too long.
  let keptKey: BlobKey?

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
