// What esbuild bundles as a stylesheet.
declare module '*.css';
