internal import Posix

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Reads a directory repeatedly and assigns numbers to its files.
struct DiskReader {
  let top: String
  /// A Boolean value that indicates whether the control file is read each time, as other processes see it in memory.
  let readsControlFile: Bool
  private var numbers: [ino_t: Int] = [:]
  private var nextNumber = DiskImage.root + 1
  private(set) var image = DiskImage()
  /// The paths relative to the top at the last read.
  private(set) var paths: [String: Int] = [:]
  /// The former paths of files. A file that was opened under such a path is still synced under it.
  private(set) var formerPaths: [String: Int] = [:]

  init(top: String, readsControlFile: Bool) {
    self.top = top
    self.readsControlFile = readsControlFile
  }

  /// - Returns: The changes since the last read.
  mutating func read() -> [DiskChange] {
    let before = image
    var next = DiskImage()
    var seen: [ino_t: Int] = [:]
    formerPaths.merge(paths) { $1 }
    paths = ["": DiskImage.root]
    read(DiskImage.root, "", into: &next, &seen)
    readUnnamed(into: &next, &seen)
    // The file system may reuse the inode number of a removed file.
    numbers = seen
    image = next
    return before.changes(to: next)
  }

  private mutating func read(
    _ directory: Int, _ path: String, into next: inout DiskImage, _ seen: inout [ino_t: Int]
  ) {
    next.directories[directory] = [:]
    for name in Self.names(in: path.isEmpty ? top : top + "/" + path) {
      let relative = path.isEmpty ? name : path + "/" + name
      let full = top + "/" + relative
      var status = stat()
      guard lstat(full, &status) == 0 else { continue }
      let number = numbers[status.st_ino] ?? seen[status.st_ino] ?? nextNumber
      if number == nextNumber { nextNumber += 1 }
      seen[status.st_ino] = number
      paths[relative] = number
      next.directories[directory]?[name] = number
      if status.st_mode & S_IFMT == S_IFDIR {
        read(number, relative, into: &next, &seen)
      } else if !readsControlFile, name == ".blobcache", let known = image.files[number] {
        // A control file with a name is only changed in memory, and its content need not be durable.
        next.files[number] = known
      } else {
        next.files[number] = Self.content(of: full, status, image.files[number])
      }
    }
  }

  /// Reads the unnamed file that this process is writing, by its descriptor. The kernel shows it as a link to the
  /// directory of its creation. Only Linux has such files.
  private mutating func readUnnamed(into next: inout DiskImage, _ seen: inout [ino_t: Int]) {
    let descriptors = "/proc/self/fd"
    for name in Self.names(in: descriptors) {
      guard let descriptor = CInt(name), let path = Self.target(ofLink: descriptors + "/" + name),
        path.hasPrefix(top + "/"), path.contains("/#"), path.hasSuffix(" (deleted)")
      else { continue }
      var status = stat()
      guard fstat(descriptor, &status) == 0, status.st_nlink == 0 else { continue }
      let number = numbers[status.st_ino] ?? nextNumber
      if number == nextNumber { nextNumber += 1 }
      seen[status.st_ino] = number
      let directory = path.dropFirst(top.count + 1).prefix { $0 != "#" }
      paths[directory + UnnamedFile.label] = number
      next.files[number] = Self.content(of: descriptor, status, image.files[number])
    }
  }

  private static func target(ofLink path: String) -> String? {
    var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink(path, &bytes, bytes.count)
    return count < 0 ? nil : String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static func names(in path: String) -> [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name != ".", name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  private static func content(of path: String, _ status: stat, _ before: FileImage?) -> FileImage {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      // The store under test has a lease on the file, so one of this process's descriptors is open on it.
      let leased = errno == EWOULDBLOCK ? leasedDescriptor(of: status) : nil
      return leased.map { content(of: $0, status, before) } ?? FileImage()
    }
    defer { close(descriptor) }
    return content(of: descriptor, status, before)
  }

  private static func content(of descriptor: CInt, _ status: stat, _ before: FileImage?) -> FileImage {
    FileImage(of: descriptor, byteCount: Int(status.st_size), sharingWith: before)
  }

  /// Returns a descriptor of this process that is open on the file.
  private static func leasedDescriptor(of file: stat) -> CInt? {
    (0..<1024).first { descriptor in
      var status = stat()
      return fstat(descriptor, &status) == 0 && status.st_ino == file.st_ino && status.st_dev == file.st_dev
    }
  }
}
