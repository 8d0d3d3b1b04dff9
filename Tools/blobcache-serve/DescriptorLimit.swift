#if Server
  #if canImport(Darwin)
    internal import Darwin
  #elseif canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #elseif canImport(Android)
    internal import Android
  #endif

  /// The process's limit of open files and connections.
  enum DescriptorLimit {
    /// Raises the soft limit to the hard limit.
    ///
    /// - Returns: The limit in effect, or `nil` if the system does not report it.
    static func raise() -> Int? {
      #if canImport(Glibc)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
      #else
        let resource = RLIMIT_NOFILE
      #endif
      var limit = rlimit()
      guard unsafe getrlimit(resource, &limit) == 0 else { return nil }
      let before = limit.rlim_cur
      limit.rlim_cur = limit.rlim_max
      guard unsafe setrlimit(resource, &limit) == 0 else { return Int(clamping: before) }
      return Int(clamping: limit.rlim_cur)
    }
  }
#endif
