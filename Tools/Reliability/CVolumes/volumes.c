#if defined(__linux__)

#define _GNU_SOURCE
#include "volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

// ext4 (EXT4_IOC_SHUTDOWN) and xfs (XFS_IOC_GOINGDOWN) share this number.
#define SHUT_DOWN _IOR('X', 125, uint32_t)
// Shuts the file system down without writing its log first.
#define SHUT_DOWN_NO_LOG_FLUSH 2

// Attaches an image to a free loop device that detaches itself after its last use.
//
// Returns the device's descriptor, or a negative errno value.
static int attach(const char *image, char *path, size_t path_size, int *device) {
  int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (control < 0) return -errno;
  int file = open(image, O_RDWR | O_CLOEXEC);
  if (file < 0) {
    int error = errno;
    close(control);
    return -error;
  }
  int result = -EBUSY;
  // Other processes may take the device between the calls.
  for (int tries = 0; tries < 64 && result == -EBUSY; tries++) {
    int number = ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) {
      result = -errno;
      break;
    }
    *device = number;
    snprintf(path, path_size, "/dev/loop%d", number);
    int opened = open(path, O_RDWR | O_CLOEXEC);
    if (opened < 0) {
      result = -errno;
      break;
    }
    struct loop_config config = {.fd = (uint32_t)file, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
    if (ioctl(opened, LOOP_CONFIGURE, &config) == 0) {
      result = opened;
    } else {
      result = -errno;
      close(opened);
    }
  }
  close(file);
  close(control);
  return result;
}

int volume_mount_image(
    const char *image, const char *directory, const char *type, const char *options, int *device) {
  int error = EINVAL;
  // In some thousand mounts, a new XFS image was once refused with EINVAL for an unknown reason, without a message in
  // the kernel's log. An invalid image is refused each time.
  for (int tries = 0; tries < 3 && error == EINVAL; tries++) {
    char path[32];
    int opened = attach(image, path, sizeof path, device);
    if (opened < 0) return -opened;
    error = mount(path, directory, type, 0, options) == 0 ? 0 : errno;
    close(opened);
  }
  return error;
}

int volume_mount(const char *directory, const char *type, const char *options) {
  return mount(type, directory, type, 0, options) == 0 ? 0 : errno;
}

int volume_set_read_only(const char *directory, bool is_read_only) {
  return mount(NULL, directory, NULL, MS_REMOUNT | (is_read_only ? MS_RDONLY : 0), NULL) == 0 ? 0 : errno;
}

int volume_unmount(const char *directory) {
  // The files of a process that has just ended may not be closed yet.
  for (int tries = 0; tries < 1000; tries++) {
    if (umount2(directory, 0) == 0) return 0;
    if (errno != EBUSY) return errno;
    usleep(5000);
  }
  return EBUSY;
}

int volume_wait_for_image(int device, const char *image) {
  struct stat file;
  if (stat(image, &file) != 0) return errno;
  char path[32];
  snprintf(path, sizeof path, "/dev/loop%d", device);
  for (int tries = 0; tries < 12000; tries++) {
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    // The device is being removed.
    if (opened < 0) return errno == ENXIO || errno == ENOENT ? 0 : errno;
    struct loop_info64 info;
    int error = ioctl(opened, LOOP_GET_STATUS64, &info) == 0 ? 0 : errno;
    close(opened);
    if (error != 0) return error == ENXIO ? 0 : error;
    // Another image may have been attached to the device since.
    if (info.lo_inode != file.st_ino || info.lo_device != file.st_dev) return 0;
    usleep(5000);
  }
  return ETIMEDOUT;
}

int volume_abandon(const char *directory) { return umount2(directory, MNT_DETACH) == 0 ? 0 : errno; }

int volume_cut_power(const char *directory) {
  int opened = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return errno;
  struct stat here, root;
  int error = 0;
  uint32_t how = SHUT_DOWN_NO_LOG_FLUSH;
  if (fstat(opened, &here) != 0 || stat("/", &root) != 0) {
    error = errno;
  } else if (here.st_dev == root.st_dev) {
    error = EPERM;
  } else if (ioctl(opened, SHUT_DOWN, &how) != 0) {
    error = errno;
  }
  close(opened);
  return error;
}

#else

#include "volumes.h"

#include <errno.h>

int volume_mount_image(
    const char *image, const char *directory, const char *type, const char *options, int *device) {
  return ENOTSUP;
}
int volume_wait_for_image(int device, const char *image) { return ENOTSUP; }
int volume_mount(const char *directory, const char *type, const char *options) { return ENOTSUP; }
int volume_set_read_only(const char *directory, bool is_read_only) { return ENOTSUP; }
int volume_unmount(const char *directory) { return ENOTSUP; }
int volume_abandon(const char *directory) { return ENOTSUP; }
int volume_cut_power(const char *directory) { return ENOTSUP; }

#endif
