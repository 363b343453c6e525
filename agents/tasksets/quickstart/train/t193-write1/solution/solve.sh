#!/bin/bash
set -e
cd /app
echo chair > page.txt
