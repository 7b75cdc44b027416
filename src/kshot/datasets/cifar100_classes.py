"""CIFAR-100's class names, its 20 superclasses, the paper's merge of these into 9 (C.2), and its split (D.2)."""

from __future__ import annotations

__all__ = ["BASE_CLASSES", "FINE_CLASSES", "HELD_OUT_CLASSES", "MERGED_9", "SUPERCLASSES", "SUPERCLASS_OF"]

# The five classes of each superclass, both in the data set's order.
SUPERCLASSES: dict[str, tuple[str, ...]] = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}

# The label of a class in the data set, 0 to 99, is its place here: the alphabet's order.
FINE_CLASSES: tuple[str, ...] = tuple(sorted(name for members in SUPERCLASSES.values() for name in members))

SUPERCLASS_OF: dict[str, str] = {name: group for group, members in SUPERCLASSES.items() for name in members}

# Each superclass' larger group in the paper's mixture "GMM (supercl.)".
MERGED_9: dict[str, str] = {
    "aquatic_mammals": "water animals",
    "fish": "water animals",
    "flowers": "plants",
    "fruit_and_vegetables": "plants",
    "trees": "plants",
    "insects": "invertebrates and reptiles",
    "non-insect_invertebrates": "invertebrates and reptiles",
    "reptiles": "invertebrates and reptiles",
    "medium_mammals": "small and medium mammals",
    "small_mammals": "small and medium mammals",
    "large_carnivores": "large land animals",
    "large_omnivores_and_herbivores": "large land animals",
    "people": "people",
    "large_man-made_outdoor_things": "outdoor scenes",
    "large_natural_outdoor_scenes": "outdoor scenes",
    "food_containers": "household things",
    "household_electrical_devices": "household things",
    "household_furniture": "household things",
    "vehicles_1": "vehicles",
    "vehicles_2": "vehicles",
}

# The paper's 20 classes for k-shot learning, and the other 80, on which its networks are trained.
HELD_OUT_CLASSES: tuple[int, ...] = (8, 11, 12, 20, 23, 26, 29, 30, 31, 33, 37, 39, 41, 47, 57, 68, 71, 72, 81, 84)
BASE_CLASSES: tuple[int, ...] = tuple(label for label in range(100) if label not in HELD_OUT_CLASSES)
