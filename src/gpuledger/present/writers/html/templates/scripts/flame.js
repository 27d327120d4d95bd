const startFlame = () => {};
