internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// One name in a directory.
package struct DirectoryEntry: Sendable {
  package enum Kind: Sendable {
    case regular, directory, other
    /// The file system does not say; opening tells.
    case unknown
  }

  /// With U+FFFD for what is not UTF-8.
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
    while true {
      var found: UnsafeMutablePointer<dirent>?
      try files.perform(.listDirectory, location) {
        errno = 0
        unsafe found = unsafe readdir(handle)
        return unsafe found == nil && errno != 0 ? -1 : 0
      }
      guard let entry = unsafe found else { return nil }
      // The entry may be shorter than `dirent`, so its fields are reached in place.
      let name = unsafe UnsafeRawPointer(entry).advanced(by: MemoryLayout<dirent>.offset(of: \.d_name)!)
        .assumingMemoryBound(to: CChar.self)
      if unsafe name[0] == 0x2E && (name[1] == 0 || (name[1] == 0x2E && name[2] == 0)) { continue }
      let exact = unsafe String(validatingCString: name)
      return DirectoryEntry(
        name: unsafe exact ?? String(cString: name), isNameExact: exact != nil,
        kind: unsafe Self.kind(entry.pointee.d_type))
    }
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
