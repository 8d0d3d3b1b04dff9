internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// One name in a directory.
package struct DirectoryEntry: Sendable {
  package enum Kind: Sendable {
    case regular, directory, other
    /// The file system does not say; opening tells.
    case unknown
  }

  /// The name, with U+FFFD for bytes that are not UTF-8.
  package let name: String
  /// Whether `name` is exactly the file's name. No record has a name that is not UTF-8.
  package let isNameExact: Bool
  package let kind: Kind
}

/// Owns an open directory listing.
@safe package struct DirectoryStream: ~Copyable {
  #if canImport(Darwin)
    private typealias Handle = UnsafeMutablePointer<DIR>
  #else
    private typealias Handle = OpaquePointer
  #endif

  private let handle: Handle
  private var current: UnsafeMutablePointer<dirent>?
  private let location: Location
  private let files: Files

  /// Takes the descriptor over, also when it throws.
  init(adopting descriptor: CInt, location: Location, files: Files) throws(FileError) {
    var handle: Handle?
    do {
      // It asks for the descriptor's status, which an interruption may cut short like any other call.
      try files.perform(.listDirectory, location) {
        unsafe handle = unsafe fdopendir(descriptor)
        return unsafe handle == nil ? -1 : 0
      }
    } catch {
      try? files.close(descriptor, location)  // nothing was written through it
      throw error
    }
    unsafe self.handle = unsafe handle!
    self.location = location
    self.files = files
  }

  deinit {
    unsafe closedir(handle)
  }

  /// The next entry but `.` and `..`; nil at the end.
  package mutating func next() throws(FileError) -> DirectoryEntry? {
    try advance() ? entry : nil
  }

  /// Goes to the next entry but `.` and `..`.
  ///
  /// - Returns: false at the end.
  package mutating func advance() throws(FileError) -> Bool {
    while true {
      let location = location
      var found: UnsafeMutablePointer<dirent>?
      try files.perform(.listDirectory, location) {
        errno = 0
        unsafe found = unsafe readdir(handle)
        return unsafe found == nil && errno != 0 ? -1 : 0
      }
      unsafe current = unsafe found
      guard unsafe found != nil else { return false }
      let name = unsafe entryName
      if unsafe name[0] == 0x2E && (name[1] == 0 || (name[1] == 0x2E && name[2] == 0)) { continue }
      return true
    }
  }

  /// Whether the position of one stream means something to another stream of the directory.
  package static var keepsPositions: Bool {
    #if canImport(Darwin)
      false
    #else
      true
    #endif
  }

  /// Where the listing goes on behind the entry that `advance` has come to.
  package var position: Int64 { unsafe Int64(telldir(handle)) }

  /// Goes to where another stream of the directory has been.
  ///
  /// Entries that were made or removed since then may be left out or met again, depending on the file system. A
  /// position that it refuses is the beginning.
  package mutating func move(to position: Int64) throws(FileError) {
    try files.perform(.listDirectory, location) {
      unsafe seekdir(handle, Int(position))
      return 0
    }
  }

  /// The entry that `advance` has come to.
  package var entry: DirectoryEntry {
    let exact = unsafe String(validatingCString: entryName)
    return DirectoryEntry(
      name: unsafe exact ?? String(cString: entryName), isNameExact: exact != nil, kind: entryKind)
  }

  package var entryKind: DirectoryEntry.Kind { unsafe Self.kind(current!.pointee.d_type) }

  /// Calls `body` with the bytes of the entry's name.
  package func withEntryName<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    let name = unsafe UnsafeRawPointer(entryName).assumingMemoryBound(to: UInt8.self)
    let bytes = unsafe UnsafeBufferPointer(start: name, count: strlen(entryName))
    return unsafe body(bytes.span)
  }

  /// The entry's name, until the stream goes on.
  var entryName: UnsafePointer<CChar> {
    // The entry may be shorter than `dirent`, so its fields are reached in place.
    unsafe UnsafeRawPointer(current!).advanced(by: MemoryLayout<dirent>.offset(of: \.d_name)!)
      .assumingMemoryBound(to: CChar.self)
  }

  var entryLocation: Location {
    location.appending(entry.name)
  }

  private static func kind(_ type: UInt8) -> DirectoryEntry.Kind {
    switch Int(type) {
    case Int(DT_REG): .regular
    case Int(DT_DIR): .directory
    case Int(DT_UNKNOWN): .unknown
    default: .other
    }
  }
}
