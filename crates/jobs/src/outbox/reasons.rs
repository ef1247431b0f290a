//! Why a delivery is given up or an endpoint disabled, where no receiver has said so: sentences that tenants read.

/// An endpoint to which a delivery was given up.
pub const NEVER_REACHED: &str = "a delivery failed as often as it is tried, and no other reached it meanwhile";

/// An endpoint that has said so itself, and the delivery to which it did.
pub const GONE: &str = "it says that it is gone";

/// An endpoint that was disabled by whom it belongs to.
pub const BY_ITS_TENANT: &str = "disabled by its tenant";

/// An endpoint of which what was told to it is being deleted.
pub const BEING_DELETED: &str = "it is being deleted";

/// A delivery that was taken as often as it may be tried, and of whose last try nothing was heard.
pub const NEVER_ANSWERED: &str = "it was tried as often as it may be, and what came of the last try is not known";

/// A delivery whose row holds what the program that was to send it cannot read.
pub const UNREADABLE: &str = "what was to be sent, or its secret, could not be read";
