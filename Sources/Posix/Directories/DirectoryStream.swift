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

package struct DirectoryEntry: Sendable {
  package enum Kind: Sendable {
    case regular, directory, other
    /// The file system does not report the type, so the file has to be opened.
    case unknown
  }

  /// The name, with U+FFFD for bytes that are not UTF-8.
  package let name: String
  /// A Boolean value that indicates whether `name` is exact; names of records are always valid UTF-8.
  package let isNameExact: Bool
  package let kind: Kind
}

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

  /// Takes ownership of the descriptor, also if it throws.
  init(adopting descriptor: CInt, location: Location, files: Files) throws(FileError) {
    var handle: Handle?
    do {
      // fdopendir(3) reads the descriptor's status, which a signal may interrupt.
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

  /// Returns the next entry except `.` and `..`, or `nil` at the end.
  package mutating func next() throws(FileError) -> DirectoryEntry? {
    try advance() ? entry : nil
  }

  /// Advances to the next entry except `.` and `..`, or returns `false` at the end.
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

  /// A Boolean value that indicates whether a position is valid in another stream of the same directory.
  package static var keepsPositions: Bool {
    #if canImport(Darwin)
      false
    #else
      true
    #endif
  }

  package var position: Int64 { unsafe Int64(telldir(handle)) }

  /// Moves to a position of another stream of the same directory.
  ///
  /// Entries that were added or removed since then may be skipped or repeated, depending on the file system. An
  /// invalid position is treated as the beginning.
  package mutating func move(to position: Int64) throws(FileError) {
    try files.perform(.listDirectory, location) {
      unsafe seekdir(handle, Int(position))
      return 0
    }
  }

  package var entry: DirectoryEntry {
    let exact = unsafe String(validatingCString: entryName)
    return DirectoryEntry(
      name: unsafe exact ?? String(cString: entryName), isNameExact: exact != nil, kind: entryKind)
  }

  package var entryKind: DirectoryEntry.Kind { unsafe Self.kind(current!.pointee.d_type) }

  package func withEntryName<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    let name = unsafe UnsafeRawPointer(entryName).assumingMemoryBound(to: UInt8.self)
    let bytes = unsafe UnsafeBufferPointer(start: name, count: strlen(entryName))
    return unsafe body(bytes.span)
  }

  /// The entry's name, which is valid until the stream advances.
  var entryName: UnsafePointer<CChar> {
    // The entry may be shorter than `dirent`, so its fields are accessed in place.
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
