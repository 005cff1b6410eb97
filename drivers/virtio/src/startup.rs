//! The steps of bringing a device up (virtio 1.2 §3.1.1) and of giving it up.

use crate::Transport;
use crate::features::*;
use gyre_machine::{DeviceError, cycles_per_ms, now};

/// How long a reset may take, ms. Devices in emulators answer at once.
const RESET_MS_MAX: u64 = 100;

/// Resets the device, agrees on `wanted` features and returns those that both have; queues are set up next, then [`finish`].
///
/// # Errors
/// [`DeviceError::Protocol`] if it does not reset, is not a 1.x device or takes its offer back.
pub fn begin(transport: &dyn Transport, wanted: u64) -> Result<u64, DeviceError> {
    reset(transport)?;
    transport.set_status(STATUS_ACKNOWLEDGE);
    transport.set_status(STATUS_ACKNOWLEDGE | STATUS_DRIVER);
    let features = transport.device_features() & (wanted | VERSION_1);
    if features & VERSION_1 == 0 {
        return Err(give_up(transport, DeviceError::Protocol));
    }
    transport.set_driver_features(features);
    let agreed = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
    transport.set_status(agreed);
    if transport.status() & STATUS_FEATURES_OK == 0 {
        return Err(give_up(transport, DeviceError::Protocol));
    }
    Ok(features)
}

/// Says that the driver is ready; the device lives from here on.
pub fn finish(transport: &dyn Transport) {
    transport.set_status(STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK);
}

/// Tells the device that the driver has given up, and passes the reason on.
pub fn give_up(transport: &dyn Transport, why: DeviceError) -> DeviceError {
    transport.set_status(transport.status() | STATUS_FAILED);
    why
}

/// Resets the device: afterwards it touches no memory of the driver (§2.4).
///
/// # Errors
/// [`DeviceError::Protocol`] if it does not come back in time; its memory must then be kept for ever.
pub fn reset(transport: &dyn Transport) -> Result<(), DeviceError> {
    transport.set_status(0);
    let deadline = now().saturating_add(cycles_per_ms().saturating_mul(RESET_MS_MAX));
    let mut polls = 0_u32;
    while transport.status() != 0 {
        polls = polls.saturating_add(1);
        // The count bounds the wait if time stands still (host tests).
        if now() > deadline || polls > 1_000_000 {
            return Err(DeviceError::Protocol);
        }
    }
    Ok(())
}
