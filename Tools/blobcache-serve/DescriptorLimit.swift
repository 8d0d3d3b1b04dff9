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

  /// How many files and connections the process may have open.
  enum DescriptorLimit {
    /// Raises the limit as far as the process may.
    ///
    /// - Returns: the limit; nil if the system does not tell it.
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
