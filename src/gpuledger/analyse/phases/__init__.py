"""The phases of a layer: attention, dispatch, the experts, combine; what each costs and what lies between them."""
